// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The JSON of Chrome's traces, which Perfetto reads: a process for each pool, with counters, the calls of each stream
 * as instants and those of the driver as slices. Times are microseconds.
 */
#include <inttypes.h>

#include "export.h"
#include "json.h"

/*
 * Threads of the process, behind its own number: that of the driver's calls, and then the streams. No number is given
 * twice: to Perfetto threads of several processes with one number are one thread that goes from hand to hand, and what
 * has no thread is of the thread that has the number of the process.
 */
enum { DRIVER_TRACK = 1, FIRST_STREAM };

/* What the counters had last, and how far the driver's slices reach, in ns. */
struct state {
	FILE *out;
	guint pid;
	bool first;
	uint64_t live;
	uint64_t taken;
	uint64_t stranded;
	uint64_t waits;
	uint64_t busy;
};

static void put_comma(struct state *s)
{
	fputs(s->first ? "\n" : ",\n", s->out);
	s->first = false;
}

static void put_name(struct state *s, const char *what, unsigned int tid, const char *name)
{
	struct json json;

	put_comma(s);
	json_begin(&json, s->out);
	json_string(&json, "ph", "M");
	json_count(&json, "pid", s->pid);
	json_count(&json, "tid", s->pid + tid);
	json_string(&json, "name", what);
	json_open(&json, "args");
	json_string(&json, "name", name);
	json_close(&json);
	json_close(&json);
}

static void put_counter(struct state *s, const char *name, const char *unit, uint64_t us, uint64_t value,
			uint64_t *last)
{
	if (*last == value)
		return;
	*last = value;
	put_comma(s);
	fprintf(s->out, "{\"ph\":\"C\",\"pid\":%u,\"name\":\"%s\",\"ts\":%" PRIu64 ",\"args\":{\"%s\":%" PRIu64 "}}",
		s->pid, name, us, unit, value);
}

static void put_call(struct state *s, const char *name, const struct export_event *event)
{
	put_comma(s);
	fprintf(s->out, "{\"ph\":\"i\",\"s\":\"t\",\"pid\":%u,\"tid\":%u,\"name\":\"%s\",\"ts\":%" PRIu64
		",\"args\":{\"bytes\":%" PRIu64 ",\"addr\":\"0x%" PRIx64 "\"}}", s->pid, s->pid + FIRST_STREAM + event->stream,
		name, event->us, event->bytes, event->addr);
}

/* Slices of a track must not overlap, and the replay may take longer than the program did. */
static void put_driver(struct state *s, const struct export_event *event)
{
	uint64_t start = MAX(event->us * 1000, s->busy), took = event->addr;

	s->busy = start + took;
	put_comma(s);
	fprintf(s->out, "{\"ph\":\"X\",\"pid\":%u,\"tid\":%u,\"name\":\"driver calls\",\"ts\":%" PRIu64 ".%03u,"
		"\"dur\":%" PRIu64 ".%03u,\"args\":{\"calls\":%" PRIu64 ",\"stream\":%u}}", s->pid, s->pid + DRIVER_TRACK, start / 1000,
		(unsigned int)(start % 1000), took / 1000, (unsigned int)(took % 1000), event->taken, event->stream);
}

static void put_event(struct state *s, const struct export_event *event)
{
	switch (event->kind) {
	case EXPORT_ALLOC:
		put_call(s, "malloc", event);
		break;
	case EXPORT_FREE:
		put_call(s, "free", event);
		break;
	case EXPORT_DRIVER:
		put_driver(s, event);
		break;
	case EXPORT_LEVEL:
		put_counter(s, "live", "bytes", event->us, event->bytes, &s->live);
		put_counter(s, "taken", "bytes", event->us, event->taken, &s->taken);
		put_counter(s, "stranded", "bytes", event->us, event->stranded, &s->stranded);
		put_counter(s, "waits", "count", event->us, event->waits, &s->waits);
		break;
	default:
		break;
	}
}

static void put_pool(struct state *s, const struct export_pool *pool)
{
	char *name = g_strdup_printf("%s, device %u", pool->name, pool->device);

	put_name(s, "process_name", 0, name);
	g_free(name);
	put_name(s, "thread_name", DRIVER_TRACK, "driver");
	for (uint32_t i = 0; i < pool->streams; i++) {
		name = g_strdup_printf("stream %u", i);
		put_name(s, "thread_name", FIRST_STREAM + i, name);
		g_free(name);
	}
	for (guint i = 0; i < pool->events->len; i++)
		put_event(s, &g_array_index(pool->events, struct export_event, i));
}

void export_perfetto(const struct export *export)
{
	struct state s = { .out = export->out, .first = true, .pid = 1 };

	fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[", s.out);
	for (guint i = 0; i < export->pools->len; i++) {
		const struct export_pool *pool = export->pools->pdata[i];

		s.live = s.taken = s.stranded = s.waits = UINT64_MAX;
		s.busy = 0;
		put_pool(&s, pool);
		s.pid += FIRST_STREAM + pool->streams;
	}
	fputs("\n]}\n", s.out);
}
