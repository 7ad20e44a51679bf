/* SPDX-License-Identifier: Apache-2.0 */
/* Finding catalog files. Private to the scenario room. */
#ifndef LH_SCENARIOS_CATALOG_H
#define LH_SCENARIOS_CATALOG_H

#include "core/error.h"
#include "core/yaml.h"

/* Where catalog files are looked up: beside the scenario, then in the installed folder. */
struct lh_catalog {
	const char *beside;
	const char *installed; /* may be NULL */
};

/* The path of a file of that name beside the scenario or in the catalog; owned by the caller,
 * or NULL with a message in diag. */
char *lh_catalog_find(const struct lh_catalog *catalog, const char *name, struct lh_pos pos,
		      const char *key_path, struct lh_diag *diag);

/*
 * Reads the catalog file name ("networks/x.yaml"), wanted by the value at pos under
 * key_path. A missing file becomes a message that names the places and the nearest name.
 * Returns the tree, owned by the caller, or NULL with messages in diag.
 */
struct lh_yaml *lh_catalog_read(const struct lh_catalog *catalog, const char *name,
				struct lh_pos pos, const char *key_path, struct lh_diag *diag);

/*
 * Replaces every file that the scenario's tree names by its content: the network, the
 * price catalog, the machines, models and profiles in use, samples and traces. Faults go to diag.
 */
void lh_catalog_inline(const struct lh_catalog *catalog, struct lh_yaml *tree,
		       struct lh_diag *diag);

#endif
