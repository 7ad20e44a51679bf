#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# longhaul train: what a person types, what comes out, and what is refused.

bats_require_minimum_version 1.5.0

small='lenet5 --samples 64 --batch 16 --threads 1 --no-figures'

setup() {
	cd "$BATS_TEST_TMPDIR"
}

# Trains without progress.
train() {
	"$LONGHAUL" train --quiet "$@"
}

@test "a training leaves its curve, its weights and all that it takes to do it again" {
	run -0 train $small --epochs 2
	[[ $output == *"lenet5: 61706 parameters; 64 samples to train, 1000 to test; 8 steps"* ]]
	[[ $output == *"memory: weights 0.2 MB + gradients 0.2 MB + optimizer 0.2 MB + activations "* ]]
	[[ $output == *"8 steps in "*" samples/s"* ]]
	[[ $output == *"Results: results/train-lenet5-seed1 ("* ]]
	cd results/train-lenet5-seed1
	[ "$(head -n 1 loss.csv)" = step,epoch,lr,loss,accuracy,grad_norm,test_loss,test_accuracy,test_bits_per_byte,test_word_accuracy ]
	[ "$(wc -l <loss.csv)" -eq 9 ]
	[ "$(cut -d, -f1,7 loss.csv | grep -c ',[0-9]')" -eq 2 ] # looks after both epochs
	python3 - <<-'EOF'
		import json
		t = json.load(open("train.json"))
		assert t["format"] == "longhaul-train/1" and t["status"] == "done", t
		assert t["job"]["model"] == "lenet5" and t["job"]["epochs"] == 2
		assert t["begin"]["device"]["processor"] and t["begin"]["device"]["threads"] == 1
		m = t["begin"]["memory"]
		assert m["sum_bytes"] == sum(v for k, v in m.items() if k != "sum_bytes"), m
		n = int.from_bytes(open("weights.safetensors", "rb").read(8), "little")
		header = json.loads(open("weights.safetensors", "rb").read(8 + n)[8:])
		size = sum(t["data_offsets"][1] - t["data_offsets"][0] for k, t in header.items() if k != "__metadata__")
		assert size == 4 * 61706, size
	EOF
}

@test "the same command gives the same bytes, another seed others; the job of train.json does it again" {
	train $small --epochs 2 --out a
	train $small --epochs 2 --out b
	train $small --epochs 2 --seed 2 --out c
	cmp a/loss.csv b/loss.csv
	cmp a/weights.safetensors b/weights.safetensors
	run ! cmp -s a/weights.safetensors c/weights.safetensors
	python3 -c 'import json; print(json.dumps({**json.load(open("a/train.json"))["job"], "weights": "again"}))' |
		"$LONGHAUL_LEARNER" --alone >events.jsonl
	cmp a/weights.safetensors again
}

@test "a batch in pieces takes the same steps" {
	train $small --steps 6 --out whole
	train $small --steps 6 --micro-batch 4 --out pieces
	cut -d, -f1,3 whole/loss.csv >whole.csv
	cut -d, -f1,3 pieces/loss.csv >pieces.csv
	cmp whole.csv pieces.csv
	python3 - <<-'EOF'
		import csv
		rows = [list(csv.DictReader(open(d + "/loss.csv")))[-1] for d in ("whole", "pieces")]
		assert abs(float(rows[0]["test_loss"]) - float(rows[1]["test_loss"])) < 1e-4, rows
	EOF
}

@test "results as JSON are one document" {
	run -0 --separate-stderr train $small --steps 4 --json
	[ -z "$stderr" ]
	python3 - <<-EOF
		import json
		t = json.loads('''$output''')
		assert len(t["rows"]) == 4 and t["rows"][3]["test_loss"] > 0, t["rows"]
		assert t["end"]["samples_per_s"] > 0 and t["results_folder"] == "results/train-lenet5-seed1"
	EOF
}

@test "a figure is drawn where gnuplot is" {
	command -v gnuplot >/dev/null || skip "gnuplot is not installed"
	train lenet5 --samples 64 --batch 16 --threads 1 --steps 8 --out r
	grep -q '<svg' r/figures/loss.svg
	[ -s r/figures/loss.png ]
}

@test "results are never overwritten, and a second run without --out gets a folder of its own" {
	train $small --steps 1
	train $small --steps 1
	[ -d results/train-lenet5-seed1-2 ]
	mkdir there
	run -2 train $small --steps 1 --out there
	[[ $output == *"there exists; results are never overwritten"* ]]
	[ -z "$(ls there)" ]
}

# ---- checkpoints

# Waits until a condition holds.
wait_for() {
	for _ in $(seq 600); do
		eval "$1" && return
		sleep 0.1
	done
	return 1
}

# Starts a training of 400 steps, sends it a signal when a checkpoint is there, and checks its status.
interrupted() {
	python3 - "$@" <<-'EOF'
		import os, signal, subprocess, sys, time
		number = getattr(signal, sys.argv[1])
		signal.signal(number, signal.SIG_DFL)
		p = subprocess.Popen([os.environ["LONGHAUL"], "train", "--quiet", *sys.argv[2:]], stdout=subprocess.DEVNULL)
		for _ in range(600):
		    if os.path.isdir("c") and any(n.endswith(".safetensors") for n in os.listdir("c")):
		        break
		    time.sleep(0.1)
		p.send_signal(number)
		assert p.wait(60) == 128 + number, p.returncode
	EOF
}

@test "a signal ends it after the step with a checkpoint and what came of it; --resume goes on bit for bit" {
	options="$small --steps 2000 --log-every 1 --evaluate 1000"
	train $options --out whole
	for name in SIGINT SIGTERM; do
		rm -rf c first rest
		interrupted $name $options --checkpoint c --checkpoint-every 5 --out first
		python3 -c 'import json; t = json.load(open("first/train.json")); assert t["status"] == "stopped" and 5 <= t["end"]["steps"] < 2000, t["end"]'
		[ -z "$(compgen -G 'first.partial-*')" ]
		train $options --checkpoint c --checkpoint-every 5 --resume --out rest
		cmp whole/weights.safetensors rest/weights.safetensors
		# the rows of both parts are those of the whole
		cmp whole/loss.csv <(cat first/loss.csv; tail -n +2 rest/loss.csv)
	done
}

@test "a killed longhaul takes its learner with it, and the next one removes what it left" {
	"$LONGHAUL" train --quiet $small --steps 1000000 --out r >/dev/null 2>&1 &
	wait_for '[ -e r.partial-*/train.json ]'
	learner=$(pgrep -P $!)
	kill -KILL $!
	wait $! || true
	wait_for '! kill -0 "$learner" 2>/dev/null'
	train $small --steps 1 --out s
	run ! compgen -G 'r.partial-*'
}

@test "checkpoints of another training are not mixed in, and a damaged one is passed over" {
	train $small --steps 8 --checkpoint c --checkpoint-every 2 --out a
	[ "$(ls c | wc -l)" -eq 2 ] # the newest two
	run -2 train $small --steps 8 --checkpoint c --out b
	[[ $output == *"c already holds checkpoints, of another training"* ]]
	run -3 train $small --steps 8 --checkpoint c --resume --set classes=4 --out b
	run -3 train $small --steps 8 --checkpoint none --resume --out b
	[[ $output == *"none: no whole checkpoint to go on from"* ]]
	truncate -s -1 c/checkpoint-000000000008.safetensors
	run -0 train $small --steps 8 --checkpoint c --resume --out d
	[[ $output == *"passed over: "*checkpoint-000000000008* ]]
	cmp a/weights.safetensors d/weights.safetensors
	run -3 train $small --steps 8 --resume
	[[ $output == *"--checkpoint: missing"* ]]
}

# ---- what is refused

@test "all that is wrong is told at once, by the names of the options" {
	run -3 --separate-stderr "$LONGHAUL" train lenet5 --set clases=3 --set image=99 --lr 0x --batch none \
		--epochs 0 --data mnist:/nowhere --vocabulary /none --schedule cosinus --evaluate -1
	cat <<<"$stderr"
	[ "${#stderr_lines[@]}" -eq 9 ]
	for option in --set --set --lr --batch --epochs --data --vocabulary --schedule --evaluate; do
		[[ $stderr == *"$option: "* ]]
	done
	[[ $stderr == *"lenet5 has no setting clases; did you mean classes?"* ]]
	[[ $stderr == *"image=99: expected a whole number from 28 to 32"* ]]
	[[ $stderr == *"no schedule 'cosinus'; did you mean 'cosine'?"* ]]
	[[ $stderr == *"/nowhere: No such file or directory"* ]]
	[ ! -e results ]
}

@test "each wrong thing is told with what would be right" {
	while IFS='|' read -r arguments message; do
		run -3 --separate-stderr "$LONGHAUL" train $arguments
		echo "$arguments: $stderr"
		[[ $stderr == *"$message"* ]]
		[ "${#stderr_lines[@]}" -eq 1 ]
	done <<-'EOF'
		lenett|no model is called lenett; did you mean lenet5?
		lenet5 --lr 0|optimizer sgd: lr is 0
		lenet5 --momentum 1|momentum is 1
		lenet5 --data text:/etc/passwd|--data: model lenet5 does not learn from text data; expected one of mnist, cifar10, synthetic-images, webdataset
		gpt-small --data synthetic-images|model gpt-small does not learn from synthetic-images data; expected one of text, synthetic-text, webdataset
		lenet5 --data mnits|--data: no kind of data 'mnits'; did you mean 'mnist'?
		lenet5 --data mnist|mnist data are read from a file or folder; expected mnist:PATH
		lenet5 --data synthetic-images:x|synthetic-images data are made, not read
		lenet5 --optimizer adam|adam
		lenet5 --steps 5 --epochs 2|expected one of epochs and steps
		lenet5 --batch 10 --micro-batch 4|--batch: 10; expected a multiple of micro_batch, 4
		lenet5 --precision half|--precision: 'half'; expected fp32, fp16 or bf16
		lenet5 --set image=30|image=30: expected 28 or 32
		deepfm --augment|only images and speech are varied
	EOF
	[ ! -e results ]
}

@test "what only the learner finds leaves nothing behind either" {
	mkdir data
	printf 'no numbers' >data/train-images-idx3-ubyte
	printf 'no numbers' >data/train-labels-idx1-ubyte
	run -3 train $small --data mnist:data
	[[ $output == *data/train-* ]]
	run -3 train $small --device gpu
	[[ $output == *"no device in this build 'gpu'"* ]]
	run -1 train $small --steps 20 --lr 1e30
	[[ $output == *"the gradient is not finite"* ]]
	[ "$(ls)" = data ] || [ -z "$(ls results)" ]
}

@test "a model that is too big for this machine is refused before it takes memory" {
	run -4 train resnet152 --batch 1000000
	[[ $output == *"model resnet152 needs "*" MB: weights 241, gradients 241, optimizer 241, activations of a micro-batch of 1000000 "*"MB free"* ]]
}

@test "CUDA is refused where this build or this machine has none" {
	"$LONGHAUL_LEARNER" --about | grep -q '"name":"cuda","processor"' && skip "this machine has a GPU"
	run -4 train $small --device cuda
	[[ $output == *[Cc][Uu][Dd][Aa]* ]]
}

# ---- lists

@test "--list shows every model with its published parameters, and the settings of one" {
	run -0 "$LONGHAUL" train --list
	[[ $output == *"resnet50 "*" 25557032 "* ]]
	[[ $output == *"whisper-tiny "*" 37760640 "* ]]
	for way in 'lenet5 --list' '--list lenet5' '--help lenet5'; do
		run -0 "$LONGHAUL" train $way
		[[ $output == *"classes "*" 10  of the labels (2 to "* ]]
		[[ $output == *"Without options: --data synthetic-images --optimizer sgd"* ]]
	done
	run -3 "$LONGHAUL" train lenett --list
}

@test "every option of the help is one that is taken" {
	for verb in train profile; do
		options=$("$LONGHAUL" "$verb" --help | sed -n 's/^  --\([a-z-]*\).*/\1/p')
		[ "$(wc -w <<<"$options")" -ge 12 ]
		for option in $options; do
			run "$LONGHAUL" "$verb" lenett "--$option" 1
			[[ $output != *"no option"* ]]
		done
	done
}
