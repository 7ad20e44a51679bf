#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# PyTorch in nodes, unchanged, in virtual time.

bats_require_minimum_version 1.5.0
load run

@test "PyTorch DistributedDataParallel over Gloo" {
	cd "$BATS_TEST_TMPDIR"
	/usr/bin/python3 -c 'import torch.distributed' 2>/dev/null ||
		skip "PyTorch is not installed (Debian package: python3-torch)"
	cat >ddp.py <<-'END'
		import os, torch, torch.distributed as dist
		torch.set_num_threads(1)
		dist.init_process_group("gloo")
		torch.manual_seed(0)
		model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(100, 100))
		optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
		for step in range(2):
		    loss = model(torch.ones(8, 100) * (1 + dist.get_rank())).pow(2).mean()
		    optimizer.zero_grad()
		    loss.backward()
		    optimizer.step()
		total = sum(p.sum().item() for p in model.parameters())
		dist.barrier()
		print("parameters %.6f" % total, flush=True)
	END
	sed 's/site: east, count: 2/site: east, count: 1/' "$srcdir/tests/guest/small.yaml" >two.yaml
	run -0 timeout --kill-after=5 "$run_limit_s" "$LONGHAUL" exec --all --no-probe two.yaml -- /usr/bin/python3 ddp.py
	echo "$output"
	[ "$(grep -o 'parameters .*' <<<"$output" | sort -u | wc -l)" -eq 1 ]
	[ "$(grep -c 'parameters ' <<<"$output")" -eq 2 ]
}
