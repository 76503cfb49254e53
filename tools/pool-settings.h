/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The settings that pools get, by the names of their variables. */
#ifndef POOL_SETTINGS_H
#define POOL_SETTINGS_H

#include <limits.h>
#include <stdbool.h>

#include "choose.h"
#include "settings/options.h"
#include "json.h"
#include "units.h"

/* Also for the longest name of a file. */
#define POOL_SETTING_TEXT PATH_MAX

/**
 * struct pool_setting - a setting in force
 * @variable: of the environment
 * @value: as text
 * @number: whether @value is a number
 * @bytes: whether that is of bytes
 * @source: "environment", "default", "option" or "auto"
 */
struct pool_setting {
	const char *variable;
	char value[POOL_SETTING_TEXT];
	bool number;
	bool bytes;
	const char *source;
};

/**
 * struct pool_settings - all of them; those that are no options of a pool only if they are set, as they are set
 */
struct pool_settings {
	struct pool_setting all[OPTIONS + VARIABLES_OTHER];
	unsigned int n;
};

/**
 * pool_settings_collect() - find out which settings are in force
 * @settings: receives them
 * @choice: the backend that was taken, and what a pool stands on there
 * @by_option: whether an option of the tool named the backend
 *
 * Makes host device 0 the current one of this thread.
 */
void pool_settings_collect(struct pool_settings *settings, const struct choice *choice, bool by_option);

/**
 * pool_setting_json() - a member with the value
 */
void pool_setting_json(struct json *json, const char *key, const struct pool_setting *setting);

#endif /* POOL_SETTINGS_H */
