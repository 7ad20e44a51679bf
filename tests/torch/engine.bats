#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The training engine against PyTorch: the small models from the same weights and batches.

bats_require_minimum_version 1.5.0

setup() {
	export PYTHONDONTWRITEBYTECODE=1
	/usr/bin/python3 -c 'import torch' 2>/dev/null ||
		skip "PyTorch is not installed (Debian package: python3-torch)"
	out=$BATS_TEST_TMPDIR
	dump=$builddir/tests/torch/dump
}

# compare SCRIPT OPTION...: SCRIPT's verdict of every file in $out.
compare() {
	run -0 timeout --kill-after=5 300 /usr/bin/python3 "$srcdir/tests/torch/$1" "${@:2}" "$out"/*
	[[ $(grep -c 'the same within' <<<"$output") == $(find "$out" -type f | wc -l) ]]
}

# steps CASE OPTION... SETTING...: ten steps of training into $out.
steps() {
	local name=$1 kind=$2 sets=() setting device

	for setting in "${@:3}"; do
		sets+=(--set "$setting")
	done
	for device in reference cpu; do
		"$dump" --device "$device" --steps 10 --optimizer "$kind" "${sets[@]}" "$name" \
			"$out/$name.$device"
	done
}

@test "logits, loss and every gradient of every small model are PyTorch's" {
	for name in $("$dump" --list); do
		for device in reference cpu; do
			"$dump" --device "$device" "$name" "$out/$name.$device"
		done
	done
	compare compare.py
}

@test "in double precision they are PyTorch's to ten digits" {
	for name in $("$dump" --list); do
		"$dump" --device reference64 "$name" "$out/$name"
	done
	compare compare.py
}

@test "ten steps of training have PyTorch's losses" {
	steps small-resnet20 sgd lr=0.05 momentum=0.9 nesterov=1 weight_decay=1e-4
	steps small-resnet-basic sgd lr=0.05 momentum=0.9 clip_norm=1 accumulate=2
	steps small-resnet-bottleneck lars lr=1 weight_decay=1e-3 schedule=cosine warmup_steps=3 total_steps=10
	steps small-gpt2 adamw lr=0.01 clip_norm=1 schedule=polynomial power=2 warmup_steps=2 total_steps=10
	steps small-roberta lamb lr=0.01 weight_decay=0.1 decay_1d=0 adapt_1d=0
	steps small-whisper adamw lr=0.003 beta2=0.98
	steps small-deepfm adamw lr=0.01 weight_decay=0
	compare compare_steps.py
}

# seeds CASE OPTION...: five seeds of eight batches, gone through $epochs times, on both sides.
seeds() {
	local name=$1 kind=$2 sets=() setting seed finals

	for setting in "${@:3}"; do
		sets+=(--set "$setting")
	done
	for seed in 1 2 3 4 5; do
		"$dump" --device cpu --batch 8 --seed "$seed" --steps 8 --epochs "$epochs" --optimizer "$kind" \
			"${sets[@]}" "$name" "$out/$name.$seed"
	done
	finals=$(/usr/bin/python3 - "$srcdir/tests/torch" "$out/$name".? <<-'END'
		import sys
		sys.path.insert(0, sys.argv[1])
		import interchange
		losses = [interchange.read(path)[1]["losses"] for path in sys.argv[2:]]
		print(",".join("%.6f" % values[-10:].mean() for values in losses))
	END
	)
	run -0 timeout --kill-after=5 120 /usr/bin/python3 "$srcdir/tests/torch/seeds.py" \
		"$out/$name.1" --epochs "$epochs" --against "$finals"
	[[ $output == *": the same range" ]]
}

@test "after training, the losses of five seeds are in the range of PyTorch's five" {
	epochs=6 seeds small-resnet20 sgd lr=0.02 momentum=0.9
	epochs=4 seeds small-gpt2 adamw lr=0.003 dropout=0.1
	epochs=5 seeds small-whisper adamw lr=0.002
	epochs=6 seeds small-deepfm adamw lr=0.01
}

@test "another weight than the file names is found" {
	"$dump" --seed 2 small-gpt2 "$out/one"
	"$dump" small-gpt2 "$out/other"
	/usr/bin/python3 - "$srcdir/tests/torch" "$out" <<-'END'
		import sys
		sys.path.insert(0, sys.argv[1])
		import interchange
		metadata, one = interchange.read(sys.argv[2] + "/one")
		_, other = interchange.read(sys.argv[2] + "/other")
		name = "layers.1.mlp.up.weight"
		interchange.write(sys.argv[2] + "/mixed", metadata, {**one, name: other[name]})
	END
	run -1 timeout --kill-after=5 60 /usr/bin/python3 "$srcdir/tests/torch/compare.py" "$out/mixed"
	[[ $output == *"grad.token.weight"*DIFFERS* ]]
}

@test "dump refuses what it does not know" {
	run -1 "$dump" gpt3 "$out/x"
	[[ $output == "dump: no model is called gpt3; did you mean gpt2?" ]]
	run -1 "$dump" --set widht=8 gpt2 "$out/x"
	[[ $output == "dump: gpt2 has no setting widht; did you mean width?" ]]
	run -1 "$dump" --device tpu gpt2 "$out/x"
	[[ $output == "dump: no device tpu" ]]
	run -1 "$dump" --set lr=fast gpt2 "$out/x"
	[[ $output == "dump: lr=fast: expected a number from 0 to 1e+09" ]]
	run -1 "$dump" --steps 1 --set schedule=sine gpt2 "$out/x"
	[[ $output == "dump: "*sine* ]]
	run -1 "$dump" gpt2
	[[ $output == *"usage: dump"* ]]
	[[ ! -e $out/x ]]
}
