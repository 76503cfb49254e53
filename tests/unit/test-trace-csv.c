// SPDX-License-Identifier: LGPL-2.1-or-later
/* The reader of traces: tables that others write, and files that are no trace. */
#include <glib.h>
#include <inttypes.h>

#include "trace.h"
#include "unit/trace-fixture.h"

#define RMM "Thread,Time,Action,Pointer,Size,Stream\n"
#define PROBLEM "id,lower,upper,size\n"

/* The operations as time, letter, size and stream. */
static void assert_ops(const struct fixture *f, const char *expected)
{
	GString *found = g_string_new(NULL);

	g_assert_cmpint(f->err, ==, 0);
	for (size_t i = 0; i < f->trace->n_ops; i++) {
		const struct trace_op *op = &f->trace->ops[i];

		g_string_append_printf(found, "%s%" PRIu64 "%c%zu/%u", i ? " " : "", (uint64_t)op->us,
				       op->kind == TRACE_ALLOC ? 'a' : 'f', op->bytes, op->stream);
	}
	g_assert_cmpstr(found->str, ==, expected);
	g_string_free(found, TRUE);
}

static void test_log(struct fixture *f, gconstpointer data)
{
	(void)data;
	read_text(f, RMM "1,00:00:01.000001,allocate,0x7f00,1048576,0x1\n"
		  "2,00:00:01.0001,allocate failure,(nil),99,0x2\n"
		  "1,00:00:01,allocate,(nil),0,0x0\n3,00:00:02:000007,allocate,0x8f00,5,2\n"
		  "1,00:00:03,free,0x7f00,1048576,0x1\n");

	assert_ops(f, "1000001a1048576/0 2000007a5/1 3000000f1048576/0");
	g_assert_cmpuint(f->trace->ops[0].line, ==, 2);
	g_assert_cmpuint(f->trace->ops[2].line, ==, 6);
}

/* Threads note the time before they agree on an order; and a program may run at midnight. */
static void test_clock(struct fixture *f, gconstpointer data)
{
	(void)data;
	read_text(f, RMM "1,23:59:59.000002,allocate,0x1,1,0\n1,23:59:59.000001,allocate,0x2,2,0\n"
		  "1,00:00:00.000003,free,0x1,1,0\n");

	assert_ops(f, "86399000002a1/0 86399000002a2/0 86400000003f1/0");
}

static void test_columns(struct fixture *f, gconstpointer data)
{
	(void)data;
	read_text(f, "Size,Stream, Pointer ,Domain,Action,Time\r\n5,0,0x1,x,allocate,00:00:00.000001\r\n");

	assert_ops(f, "1a5/0");
}

/* A buffer ends before another begins at the same time. */
static void test_problem(struct fixture *f, gconstpointer data)
{
	(void)data;
	read_text(f, PROBLEM "late,3,9,7\nb1,0,3,4\nb3,0,9,5\n");

	assert_ops(f, "0a4/0 0a5/0 3f4/0 3a7/0 9f7/0 9f5/0");
	g_assert_cmpuint(f->trace->slots, ==, 2);
	g_assert_cmpuint(f->trace->ops[3].line, ==, 2);
}

static void test_log_so_far(struct fixture *f, gconstpointer data)
{
	const char *text = RMM "1,00:00:01,allocate,0x1,5,0\n1,00:00:02,fr";

	(void)data;
	g_assert_true(g_file_set_contents(f->path, text, -1, NULL));
	f->err = trace_load_so_far(f->path, NULL, NULL, &f->trace);

	assert_ops(f, "1000000a5/0");
}

static const char *const damages[][2] = {
	{ "a,b\n1,2\n", "1: a table without the columns Time, Action, Pointer, Size and Stream of RMM's logs, or "
	  "lower, upper and size of minimalloc's problems" },
	{ RMM, "2: the trace ends before its first allocation" },
	{ RMM "1,00:00:01,allocate,0x1,5\n", "2: the column Stream is missing" },
	{ RMM "1,00:00:01,grow,0x1,5,0\n", "2: the action is \"grow\", none of allocate, free and allocate failure" },
	{ RMM "1,noon,allocate,0x1,5,0\n", "2: the time is \"noon\", expected hours:minutes:seconds.microseconds" },
	{ RMM "1,24:00:00,allocate,0x1,5,0\n",
	  "2: the time is \"24:00:00\", expected hours:minutes:seconds.microseconds" },
	{ RMM "1,00:00:01.1234567,allocate,0x1,5,0\n",
	  "2: the time is \"00:00:01.1234567\", expected hours:minutes:seconds.microseconds" },
	{ RMM "1,00:00:01,allocate,here,5,0\n", "2: the pointer is \"here\", which is no number" },
	{ RMM "1,00:00:01,allocate,0x1,-5,0\n", "2: the size is \"-5\", which is no number" },
	{ RMM "1,00:00:01,allocate,0x1,5,0\n1,00:00:01,free,0x1,6,0\n",
	  "3: frees 6 bytes of 1, for which line 2 allocated 5" },
	{ RMM "1,00:00:01,free,0x10,6,0\n", "2: frees 16, which is not allocated" },
	{ RMM "1,00:00:01,allocate,0x1,5,0", "2: the last line has no newline: the trace is cut short" },
	{ PROBLEM "b,3,3,1\n", "2: the upper time 3 is not above the lower, 3" },
	{ PROBLEM "b,3,,1\n", "2: the upper time is \"\", which is no number" },
	{ PROBLEM "b,3\n", "2: the column upper is missing" },
	{ PROBLEM, "2: the trace ends before its first allocation" },
	{ "PK\003\004", "1: the file is a zip archive, as torch.save() writes it" },
	{ "{\"traceEvents\": []}\n", "1: the file is JSON" },
	{ "\177ELF\002", "1: the file is a program" },
};

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	add("/trace/csv/log", NULL, test_log);
	add("/trace/csv/clock", NULL, test_clock);
	add("/trace/csv/columns", NULL, test_columns);
	add("/trace/csv/problem", NULL, test_problem);
	add("/trace/csv/so-far", NULL, test_log_so_far);
	add_damages("/trace/csv/damage", damages, G_N_ELEMENTS(damages));
	return g_test_run();
}
