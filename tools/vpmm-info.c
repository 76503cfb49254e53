// SPDX-License-Identifier: LGPL-2.1-or-later
/* Shows the device that pools would use, and their settings. */
#include <errno.h>
#include <glib.h>
#include <glib/gstdio.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "choose.h"
#include "cli.h"
#include "driver.h"
#include "fail.h"
#include "json.h"
#include "pool-settings.h"
#include "settings/options.h"
#include "units.h"
#include "util/text.h"

#define PROGRAM "vpmm-info"

#define MOST_FEATURES 8

/* Something that a device has or has not. */
struct feature {
	const char *key;
	const char *name;
	bool supported;
};

struct report {
	const struct choice *choice;
	struct feature features[MOST_FEATURES];
	unsigned int n_features;
	struct pool_settings settings;
};

static struct {
	char *backend;
	gboolean json;
} options;

static const GOptionEntry entries[] = {
	{ "backend", 'b', 0, G_OPTION_ARG_FILENAME, &options.backend,
	  "cuda, host or auto (default: VPMM_BACKEND, or auto)", "B" },
	{ "json", 'j', 0, G_OPTION_ARG_NONE, &options.json, "Print one JSON object", NULL },
	G_OPTION_ENTRY_NULL
};

static const struct cli cli = {
	.summary = "- show the device that pools would use, and their settings",
	.description = "Exit status: 0, or 2 if an option or a setting was refused, or the output\ncould not be written.\n",
	.entries = entries,
};

static void add_feature(struct report *report, const char *key, const char *name, bool supported)
{
	report->features[report->n_features++] = (struct feature){ key, name, supported };
}

static int ask_cuda(struct report *report)
{
	static const struct {
		const char *key;
		const char *name;
		drv_device_attribute attribute;
	} attributes[] = {
		{ "virtual_memory", "virtual memory management",
		  DRV_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED },
		{ "stream_ordered", "stream-ordered allocator",
		  DRV_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED },
		{ "file_descriptors", "sharing by file descriptor",
		  DRV_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED },
		{ "rdma", "GPUDirect RDMA",
		  DRV_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED },
	};
	drv_device device;
	drv_result result;
	int err, value;

	err = driver_open();
	if (err)
		return err;
	result = driver.cuDeviceGet(&device, report->choice->info.device);
	if (result)
		return driver_fail(result, "cuDeviceGet");
	for (unsigned int i = 0; i < G_N_ELEMENTS(attributes); i++) {
		result = driver.cuDeviceGetAttribute(&value, attributes[i].attribute, device);
		if (result)
			return driver_fail(result, "cuDeviceGetAttribute, %s", attributes[i].name);
		add_feature(report, attributes[i].key, attributes[i].name, value);
	}
	return 0;
}

static int ask_device(struct report *report)
{
	if (strcmp(report->choice->info.backend, "cuda") == 0)
		return ask_cuda(report);
	add_feature(report, "virtual_memory", "virtual memory management", true);
	add_feature(report, "stream_ordered", "stream-ordered allocator", true);
	add_feature(report, "file_descriptors", "sharing by file descriptor", true);
	add_feature(report, "rdma", "GPUDirect RDMA", false);
	return 0;
}

static void print_bytes(const char *name, uint64_t bytes)
{
	char text[UNITS_TEXT];

	units_format_bytes(text, bytes);
	printf("%-30s%s\n", name, text);
}

static void print_setting(const struct pool_setting *setting)
{
	char value[POOL_SETTING_TEXT + UNITS_TEXT + 4], human[UNITS_TEXT];
	uint64_t number = g_ascii_strtoull(setting->value, NULL, 10);

	g_strlcpy(value, setting->value, sizeof(value));
	if (setting->bytes && number >= 1024) {
		units_format_bytes(human, number);
		g_snprintf(value, sizeof(value), "%s (%s)", setting->value, human);
	}
	printf("  %-28s%-31s %s\n", setting->variable, value, setting->source);
}

/* A heading over the first; @data says whether it is there. */
static void print_unknown(void *data, const char *name)
{
	bool *headed = data;
	g_autofree char *printable = g_strescape(name, NULL);

	if (!*headed)
		printf("\nWarning: variables that are none of the library's\n");
	*headed = true;
	units_print_wrapped(stdout, 4, "  %s: the nearest is %s", printable, variables_nearest(name));
}

static void add_unknown(void *data, const char *name)
{
	/* JSON escapes in other ways. */
	g_autofree char *printable = g_strdelimit(g_strescape(name, NULL), "\\\"", '?');

	json_string(data, printable, variables_nearest(name));
}

static void print_text(const struct report *report)
{
	const struct vpmm_info *info = &report->choice->info;
	bool headed = false;

	printf("%-30s%s\n", "libvpmm", vpmm_version());
	units_print_wrapped(stdout, 30, "%-30s%s (%s)", "backend", info->backend, report->choice->why);
	printf("%-30s%d, %s\n", "device", info->device, info->device_name);
	if (info->driver_version)
		printf("%-30sCUDA %d.%d\n", "driver", info->driver_version / 1000, info->driver_version % 1000 / 10);
	else
		printf("%-30s%s\n", "driver", "none: ordinary memory");
	print_bytes("memory", info->memory_total);
	print_bytes("free memory", info->memory_free);
	print_bytes("granularity of mappings", info->granularity);
	if (info->mapping_limit)
		printf("%-30s%" PRIu64 "\n", "mappings at once", (uint64_t)info->mapping_limit);
	printf("\nThe device supports\n");
	for (unsigned int i = 0; i < report->n_features; i++)
		printf("  %-30s%s\n", report->features[i].name, report->features[i].supported ? "yes" : "no");
	printf("\nSettings in force, and where each is from\n");
	for (unsigned int i = 0; i < report->settings.n; i++)
		print_setting(&report->settings.all[i]);
	variables_each_unknown(print_unknown, &headed);
}

static void print_json(const struct report *report)
{
	const struct vpmm_info *info = &report->choice->info;
	struct json json;

	json_begin(&json, stdout);
	json_string(&json, "version", vpmm_version());
	json_string(&json, "backend", info->backend);
	json_string(&json, "backend_reason", report->choice->why);
	json_count(&json, "device", (uint64_t)info->device);
	json_string(&json, "device_name", info->device_name);
	json_count(&json, "driver_version", (uint64_t)info->driver_version);
	json_count(&json, "memory_total", info->memory_total);
	json_count(&json, "memory_free", info->memory_free);
	json_count(&json, "granularity", info->granularity);
	json_count(&json, "mapping_limit", info->mapping_limit);
	json_open(&json, "supports");
	for (unsigned int i = 0; i < report->n_features; i++)
		json_bool(&json, report->features[i].key, report->features[i].supported);
	json_close(&json);
	json_open(&json, "settings");
	for (unsigned int i = 0; i < report->settings.n; i++) {
		const struct pool_setting *setting = &report->settings.all[i];

		json_open(&json, setting->variable);
		pool_setting_json(&json, "value", setting);
		json_string(&json, "source", setting->source);
		json_close(&json);
	}
	json_close(&json);
	json_open(&json, "unknown_variables");
	variables_each_unknown(add_unknown, &json);
	json_close(&json);
	json_end(&json);
}

/* As far as that can be told without a file that is made, or a pipe that is opened. */
static int check_trace(const char *name)
{
	size_t room = name_expand(name, NULL, 0) + 1;
	g_autofree char *expanded = g_malloc(room), *folder = NULL;
	int err = 0;

	name_expand(name, expanded, room);
	folder = g_path_get_dirname(expanded);
	if (g_file_test(expanded, G_FILE_TEST_IS_DIR))
		err = EISDIR;
	else if (g_access(expanded, W_OK))
		err = errno;
	/* A file can be made, unless there is no place for it or no file can have such a name. */
	if (err == ENOENT)
		err = g_access(folder, W_OK | X_OK) ? errno : 0;
	if (err)
		fail_set(-EINVAL, "trace (VPMM_TRACE) is %s: %s", expanded, g_strerror(err));
	return -err;
}

static int info(int argc, char **argv)
{
	struct choice choice;
	struct report report = { .choice = &choice };
	int status;

	if (argc > 1)
		return cli_refuse("unexpected argument \"%s\"", argv[1]);
	if (choose_backend(options.backend, &choice))
		return cli_refuse("%s", fail_text());
	if (ask_device(&report) || (choice.info.trace && check_trace(choice.info.trace))) {
		status = cli_refuse("%s", fail_text());
	} else {
		pool_settings_collect(&report.settings, &choice, options.backend);
		if (options.json)
			print_json(&report);
		else
			print_text(&report);
		status = cli_finish_output("the report");
	}
	g_free(choice.why);
	return status;
}

int main(int argc, char **argv)
{
	int status = 0;

	g_set_prgname(PROGRAM);
	if (cli_parse(&cli, &argc, &argv, &status))
		status = info(argc, argv);
	g_free(options.backend);
	return status;
}
