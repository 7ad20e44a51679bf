/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of this machine and this process, as the kernel tells it. */
#ifndef LH_TRAINER_LEARN_MACHINE_H
#define LH_TRAINER_LEARN_MACHINE_H

#include <stdint.h>

/* What may still be allocated here, in bytes: of the machine and of the control group around us;
 * UINT64_MAX where the kernel does not tell. */
uint64_t lh_machine_available_bytes(void);

/* Resident memory of this process in bytes; 0: not told. */
struct lh_machine_memory {
	uint64_t own_bytes;   /* now, but for files */
	uint64_t files_bytes; /* now: of programs, libraries and data that are mapped */
	uint64_t peak_bytes;  /* of both together */
};
struct lh_machine_memory lh_machine_process_memory(void);

#endif
