/* SPDX-License-Identifier: Apache-2.0 */
/* --capture WHERE of the verbs that run scenarios: items of run.capture.where. */
#ifndef LH_CLI_CAPTURE_OPTION_H
#define LH_CLI_CAPTURE_OPTION_H

/* Adds one word to the list in *list, which begins as NULL and is the caller's to free.
 * 0, or -1 where memory is out. */
int lh_capture_option_add(char **list, const char *where);

/* Says on standard error what a run of programs has captured, and what is missing in it. */
void lh_capture_option_tell(const char *run_dir);

#endif
