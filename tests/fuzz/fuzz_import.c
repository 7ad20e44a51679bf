/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as measurements. What is taken becomes a network file that the scenario reader
 * takes; what is refused is refused with a message.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "core/yaml.h"
#include "import/import.h"
#include "scenarios/bind.h"
#include "scenarios/scenario.h"
#include "scenarios/schema.h"
#include "tests/fuzz/fuzz.h"

const char lh_fuzz_name[] = "import";
const char *const lh_fuzz_words[] = {
	"PING ",     " : ",
	"time=",     " ms",
	"[SUM]",     "[  3] ",
	"Mbits/sec", "0.0-10.0",
	" sec ",     "-1",
	",",	     "\n",
	"\"",	     "from",
	"to",	     "rtt_ms",
	"streams",   "999999999",
	"1e9",	     "0.0001",
	"{",	     "}",
	"null",	     "\"error\":",
	"nan",	     "-",
	"10 ms",     "Gbit/s",
	"0.000000",  "\\",
	"\xc3\xa9",  "\xff",
	"\t",	     "Client connecting to ",
	NULL,
};

/* Ends the program: a property does not hold. */
static void broken(const char *what, const char *detail)
{
	fprintf(stderr, "%s: %s\n", what, detail);
	abort();
}

/* Binds the file as a network. */
static void read_back(const char *yaml)
{
	struct lh_network network;
	struct lh_yaml *tree = NULL;
	struct lh_diag diag = {0};
	struct lh_error err = {0};

	memset(&network, 0, sizeof(network));
	if (lh_yaml_parse("imported.yaml", yaml, strlen(yaml), &tree, &diag, &err) < 0)
		broken("not YAML", diag.n_messages ? diag.messages[0] : err.message);
	lh_bind(&lh_network_section, tree, "", &network, &diag);
	if (diag.n_messages)
		broken("not a network", diag.messages[0]);
	lh_unbind(&lh_network_section, &network);
	lh_yaml_free(tree);
	lh_diag_done(&diag);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct lh_import_file file = {.name = "fuzz", .from = "a", .to = "b"};
	static const struct lh_import_options o = {.name = "fuzz", .bandwidth_bps = 1000000000};
	struct lh_import *im = lh_import_new();
	lh_cleanup_free char *yaml = NULL;
	struct lh_diag diag = {0};
	struct lh_error err = {0};
	size_t n_unmeasured;
	int r;

	if (!im)
		return 0;
	lh_import_set_provider(im, NULL, "someone", NULL);
	lh_import_set_continent(im, NULL, "europe", NULL);
	r = lh_import_read(im, &file, (const char *)data, size, &diag, &err);
	if (r < 0 && (!err.message[0] || !diag.n_messages))
		broken("an error without a message", "");
	lh_diag_done(&diag);
	memset(&diag, 0, sizeof(diag));
	if (r == 0 && lh_import_write(im, &o, &yaml, &n_unmeasured, &diag, &err) == 0)
		read_back(yaml);
	else if (r == 0 && !diag.n_messages)
		broken("no message", err.message);
	lh_diag_done(&diag);
	lh_import_free(im);
	return 0;
}
