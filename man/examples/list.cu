// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * A linked list in addresses that the CPU and the GPU share: the CPU builds it, a kernel walks and changes it, and the
 * CPU reads it again, with the same pointers. Needs a GPU; list.c shows the like on the host backend.
 *
 *	nvcc -o list list.cu $(pkg-config --cflags --libs vpmm) && ./list
 *
 * From a source tree that was built in ./build:
 *
 *	nvcc -Iinclude -o list man/examples/list.cu -Lbuild/lib/.libs -lvpmm
 *	LD_LIBRARY_PATH=build/lib/.libs ./list
 *
 * It prints a line for each step and exits with 0 if all values were right. "./list 1000000" has more nodes than the
 * usual 100000.
 */
#include <stdio.h>
#include <stdlib.h>
#include <cuda_runtime.h>
#include <vpmm.h>
#include <vpmm-shared.h>

struct node {
	struct node *next;
	unsigned long long value;
	/* A cache line of its own, and pages enough to see them move. */
	unsigned long long more[14];
};

static struct vpmm_pool *pool;

static void check_cuda(const char *what, cudaError_t err)
{
	if (err != cudaSuccess) {
		fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(err));
		exit(1);
	}
}

static void check_vpmm(const char *what, int result)
{
	if (result < 0) {
		fprintf(stderr, "%s: %s\n", what, vpmm_last_error());
		exit(1);
	}
}

/* Multiplies each value by three, and turns the list round. The pointers are those that the CPU has stored. */
__global__ void turn_round(struct node *head, struct node **last)
{
	struct node *before = NULL;

	while (head) {
		struct node *next = head->next;

		head->value *= 3;
		head->next = before;
		before = head;
		head = next;
	}
	*last = before;
}

/* Numbers the nodes from 1 on, in an order that jumps about in memory. */
static struct node *build(struct node *nodes, size_t count)
{
	/* Steps of a prime come by every node, unless their number is a multiple of it. */
	size_t step = count % 60013 ? 60013 : 1;
	struct node *head = NULL;

	for (size_t i = count, at = 0; i > 0; i--, at = (at + step) % count) {
		nodes[at].value = i;
		nodes[at].next = head;
		head = &nodes[at];
	}
	return head;
}

/* Returns how many nodes are wrong or missing, if the values go from @first on by @step. */
static size_t count_wrong(const struct node *node, size_t count, unsigned long long first, long long step)
{
	size_t wrong = 0, seen = 0;

	for (; node && seen < count; node = node->next, seen++)
		wrong += node->value != first + (unsigned long long)(step * (long long)seen);
	return wrong + (count - seen) + (node ? 1 : 0);
}

/* How many pages are on the device. Asking touches none. */
static int on_device(const void *addr, size_t bytes)
{
	int count = vpmm_locate(pool, addr, bytes, NULL), found = 0;
	struct vpmm_page *pages;

	check_vpmm("locate", count);
	pages = (struct vpmm_page *)malloc(count * sizeof(*pages));
	if (!pages) {
		perror("malloc");
		exit(1);
	}
	check_vpmm("locate", vpmm_locate(pool, addr, bytes, pages));
	for (int i = 0; i < count; i++)
		found += pages[i].location == VPMM_DEVICE;
	free(pages);
	return found;
}

int main(int argc, char **argv)
{
	size_t count = argc > 1 ? strtoul(argv[1], NULL, 10) : 100000;
	size_t bytes = (count + 1) * sizeof(struct node);
	struct node *nodes, *head, **last;
	size_t wrong;
	cudaStream_t stream;
	void *addr;
	int moved;

	if (!count) {
		fprintf(stderr, "expected a number of nodes\n");
		return 1;
	}
	/* The first call of the runtime makes the device's primary context current, and that is what the pool uses. */
	check_cuda("device", cudaSetDevice(0));
	check_cuda("stream", cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	check_vpmm("pool", vpmm_pool_create(&pool, NULL));
	check_vpmm("alloc", vpmm_shared_alloc(pool, &addr, bytes, 0));
	nodes = (struct node *)addr;

	/* Behind the nodes a kernel stores where the list begins. The CPU has touched it, so it is no empty page. */
	last = &nodes[count].next;
	*last = NULL;
	head = build(nodes, count);
	wrong = count_wrong(head, count, 1, 1);
	printf("the CPU has built %zu nodes, %d pages on the device\n", count, on_device(nodes, bytes));

	/* From here on the stream uses the range: no page is taken from work that was submitted to it. */
	moved = vpmm_migrate(pool, nodes, bytes, VPMM_DEVICE, stream, NULL, NULL);
	check_vpmm("migrate", moved);
	printf("%d pages have moved, %d pages on the device\n", moved, on_device(nodes, bytes));
	turn_round<<<1, 1, 0, stream>>>(head, last);
	check_cuda("launch", cudaGetLastError());

	/* A page that found no room on the device would not keep the CPU waiting for the kernel. */
	check_cuda("synchronize", cudaStreamSynchronize(stream));

	/* No call: pages come back as the CPU touches them. */
	head = *last;
	wrong += count_wrong(head, count, 3 * count, -3);
	printf("the CPU has read them, %d pages on the device\n", on_device(nodes, bytes));

	/* Nor does a kernel need one: it reaches pages on the host over the bus. */
	turn_round<<<1, 1, 0, stream>>>(head, last);
	check_cuda("launch", cudaGetLastError());
	check_cuda("synchronize", cudaStreamSynchronize(stream));
	wrong += count_wrong(*last, count, 9, 9);
	printf("changed once more over the bus; %zu nodes wrong in all\n", wrong);

	check_vpmm("free", vpmm_shared_free(pool, nodes, stream));
	check_vpmm("check", vpmm_pool_check(pool));
	check_vpmm("retire", vpmm_stream_retire(pool, stream));
	check_cuda("destroy", cudaStreamDestroy(stream));
	vpmm_pool_destroy(pool);
	return wrong ? 1 : 0;
}
