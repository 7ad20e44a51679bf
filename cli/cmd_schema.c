/* SPDX-License-Identifier: Apache-2.0 */
/* longhaul schema: the JSON Schema of scenario files. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

int lh_cmd_schema(int argc, char **argv)
{
	json_t *schema;

	if (argc > 1 && strcmp(argv[1], "--help") == 0) {
		printf("Usage: longhaul schema\n\n"
		       "Prints the JSON Schema (draft-07) of scenario files, for editors and "
		       "checkers.\n");
		return 0;
	}
	if (argc > 1)
		return lh_cli_usage("schema", "takes no argument");
	schema = lh_scenario_schema();
	json_dumpf(schema, stdout, JSON_INDENT(2));
	putchar('\n');
	json_decref(schema);
	return 0;
}
