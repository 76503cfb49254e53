// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * A linked list in addresses that the CPU and the device share: the CPU builds it, work of the device walks and changes
 * it, and the CPU reads it again, with the same pointers. Runs without a GPU; list.cu has a kernel.
 *
 *	cc list.c $(pkg-config --cflags --libs vpmm) && ./a.out
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <vpmm.h>
#include <vpmm-host.h>
#include <vpmm-shared.h>

#define NODES 8
#define PAGE ((size_t)2 << 20)

/* Larger than need be, so that each node is on a page of its own. */
struct node {
	struct node *next;
	int value;
	char more[PAGE - sizeof(struct node *) - sizeof(int)];
};

static struct vpmm_pool *pool;

static void expect(const char *what, int result)
{
	if (result < 0) {
		fprintf(stderr, "%s: %s\n", what, vpmm_last_error());
		exit(1);
	}
}

/* How many pages are on the device. Asking touches none. */
static int on_device(const struct node *nodes)
{
	struct vpmm_page pages[NODES];
	int count, found = 0;

	/* Pages of the range may be larger than a node, but not smaller. */
	count = vpmm_locate(pool, nodes, NODES * sizeof(*nodes), pages);
	expect("locate", count);
	for (int i = 0; i < count; i++)
		found += pages[i].location == VPMM_DEVICE;
	return found;
}

/* The nodes in the order of the list: every second one, and back. */
static struct node *build(struct node *nodes)
{
	static const int order[NODES] = { 0, 2, 4, 6, 7, 5, 3, 1 };

	for (int i = 0; i < NODES; i++) {
		nodes[order[i]].value = i + 1;
		nodes[order[i]].next = i + 1 < NODES ? &nodes[order[i + 1]] : NULL;
	}
	return &nodes[order[0]];
}

static void show(const char *who, const struct node *node)
{
	printf("%s", who);
	for (; node; node = node->next)
		printf(" %d", node->value);
	putchar('\n');
}

/*
 * The kernel: it multiplies each value by ten, and turns the list round. A GPU follows the pointers as they are. The
 * host backend's device has other addresses for the same memory; what it stores are still the pointers of all.
 */
static void turn_round(void *data)
{
	struct node **head = data, *node = *head, *before = NULL;

	while (node) {
		struct node *seen = vpmm_host_view(node), *next = seen->next;

		seen->value *= 10;
		seen->next = before;
		before = node;
		node = next;
	}
	*head = before;
}

int main(void)
{
	struct vpmm_opts opts = { .size = sizeof(opts), .backend = "host" };
	struct CUstream_st *stream;
	struct node *nodes, *head;
	void *addr;
	int moved;

	expect("create", vpmm_pool_create(&pool, &opts));
	expect("create", vpmm_host_stream_create(&stream));
	expect("alloc", vpmm_shared_alloc(pool, &addr, NODES * sizeof(*nodes), 0));
	nodes = addr;

	head = build(nodes);
	show("the CPU has built", head);

	/* From here on the stream uses the range: no page is taken from work that was submitted to it. */
	moved = vpmm_migrate(pool, nodes, NODES * sizeof(*nodes), VPMM_DEVICE, stream, NULL, NULL);
	expect("migrate", moved);
	printf("%d pages have moved, and %d are on the device\n", moved, on_device(nodes));
	expect("launch", vpmm_host_stream_launch(stream, turn_round, &head));
	expect("complete", vpmm_host_stream_complete(stream, UINT_MAX));

	/* No call: each page comes back as the CPU touches it. */
	show("the CPU reads", head);
	printf("%d pages are on the device\n", on_device(nodes));

	/* Nor does the device need one: it reaches pages on the host over the bus. */
	expect("launch", vpmm_host_stream_launch(stream, turn_round, &head));
	expect("complete", vpmm_host_stream_complete(stream, UINT_MAX));
	show("the CPU reads", head);

	expect("free", vpmm_shared_free(pool, nodes, stream));
	expect("retire", vpmm_stream_retire(pool, stream));
	expect("destroy", vpmm_host_stream_destroy(stream));
	vpmm_pool_destroy(pool);
	return 0;
}
