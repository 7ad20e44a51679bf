/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control connections: tells all peers this rank's progress, and takes theirs in. One
 * thread, which reads when it wants to know: between, news wait in the sockets.
 */
#ifndef LH_TRAINER_CONTROL_H
#define LH_TRAINER_CONTROL_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"
#include "trainer/progress.h"
#include "trainer/traffic.h"
#include "trainer/transport/frame.h"
#include "trainer/transport/mesh.h"

/* What has come of a peer's next frame, and whether it said goodbye. */
struct lh_control_peer {
	uint8_t bytes[LH_FRAME_BYTES];
	size_t have;
	bool is_gone;
};

struct lh_control {
	struct lh_mesh *mesh;
	struct lh_traffic *traffic;
	struct lh_progress *progress;
	int failure_fd; /* ends every wait when readable; -1: none */
	struct pollfd polls[LH_JOB_RANKS_MAX + 1];
	struct lh_control_peer peers[LH_JOB_RANKS_MAX];
};

/* All pointers are borrowed; nothing to free. */
void lh_control_init(struct lh_control *control, struct lh_mesh *mesh, struct lh_traffic *traffic,
		     struct lh_progress *progress);

/* Tells every peer where this rank stands. Waits for no one unless is_urgent: news that
 * find a socket full are dropped, the next say more. LH_ESYS. */
int lh_control_tell(struct lh_control *control, bool is_urgent, int64_t now_ns,
		    struct lh_error *err);

/* Takes in all news that are there. LH_ERUN: a peer closed or sent what is none; LH_ESYS. */
int lh_control_read(struct lh_control *control, struct lh_error *err);

/* Waits until there are news, a failure shows at failure_fd, or until_ns (INT64_MAX: no
 * end), and takes the news in. */
int lh_control_wait(struct lh_control *control, int64_t until_ns, struct lh_error *err);

/* Says goodbye to all peers and waits until all have said it. */
int lh_control_part(struct lh_control *control, struct lh_error *err);

#endif
