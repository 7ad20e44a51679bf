#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The tools that make real data for tests, and the bigram that language models must beat.

bats_require_minimum_version 1.5.0

setup() {
	cd "$BATS_TEST_TMPDIR"
	export PYTHONDONTWRITEBYTECODE=1
}

# Runs a tool that may lack what it is made from; then skips with the reason.
make_data() {
	run --separate-stderr "$srcdir/tools/$1" "${@:2}"
	[ "$status" -ne 4 ] || skip "$stderr"
	echo "$stderr"
	[ "$status" -eq 0 ]
}

# A Debian package that holds one file: make_deb NAME PATH CONTENT.
make_deb() {
	mkdir -p "root$(dirname "$2")"
	printf '%s' "$3" >"root$2"
	tar -C root -cJf data.tar.xz .
	printf '2.0\n' >debian-binary
	: >control.tar.xz
	ar rc "$1" debian-binary control.tar.xz data.tar.xz
}

@test "make-digits writes 1,437 digits to train and 360 to test, of all ten kinds" {
	make_data make-digits digits
	[ "$(stat -c %s digits/train-images-idx3-ubyte)" -eq $((16 + 1437 * 64)) ]
	[ "$(stat -c %s digits/train-labels-idx1-ubyte)" -eq $((8 + 1437)) ]
	[ "$(stat -c %s digits/t10k-images-idx3-ubyte)" -eq $((16 + 360 * 64)) ]
	[ "$(stat -c %s digits/t10k-labels-idx1-ubyte)" -eq $((8 + 360)) ]
	kinds=$(tail -c +9 digits/t10k-labels-idx1-ubyte | od -An -v -tu1 -w1 | sort -u | tr -d ' \n')
	[ "$kinds" = 0123456789 ]
	[ "$(cat digits/* | sha256sum)" = "001e01f4ef3438995def65faa298a16886b507b40f26c708573d1140fe792bde  -" ]
}

@test "make-digits and make-text say what is wrong with a source" {
	echo 1,2,3 | gzip >short.gz
	run -1 "$srcdir/tools/make-digits" out short.gz
	[[ $output == *"line 1 is not 64 greys"* ]]
	run -1 "$srcdir/tools/make-text" out short.gz
	[[ $output == *"has 6 bytes only"* ]]
	head -c 10 short.gz >cut.gz
	run -1 "$srcdir/tools/make-text" out cut.gz
	run -1 "$srcdir/tools/make-text" out none.gz
	[[ $output == *none.gz* ]]
	make_deb other.deb /usr/share/other x
	run -1 "$srcdir/tools/make-text" out other.deb
	[[ $output == *"other.deb: has no file /usr/share/doc/jargon-text/jargon.txt.gz"* ]]
	echo no >not.deb
	run -1 "$srcdir/tools/make-text" out not.deb
	[[ $output == *"is no Debian package"* ]]
	run -1 "$srcdir/tools/make-text"
	[[ $output == *Usage:* ]]
}

@test "make-text writes more than a mebibyte of text, most of it to train" {
	make_data make-text text
	[ "$(cat text/train.txt text/test.txt | wc -c)" -ge 1048576 ]
	[ "$(wc -c <text/test.txt)" -ge 100000 ]
	[ "$(wc -c <text/train.txt)" -gt $((5 * $(wc -c <text/test.txt))) ]
	run -0 "$srcdir/tests/kneser-ney" text/train.txt text/test.txt
	echo "$output bits per byte"
	# of English, more than a good model's and less than a count of single bytes
	awk -v bits="$output" 'BEGIN { exit !(bits > 3 && bits < 4.5) }'
}

@test "make-speech speaks 30 words, the same each time, with other voices to test" {
	make_data make-speech speech 1 1
	[ "$(cut -f 2 speech/train.tsv | sort -u | wc -l)" -eq 30 ]
	[ "$(cut -f 2 speech/test.tsv | sort -u | wc -l)" -eq 30 ]
	cut -f 1 speech/*.tsv | while IFS= read -r file; do
		# PCM, one channel, 16,000 Hz, 16 bits; more than a tenth of a second
		[ "$(od -An -tu2 -j 20 -N 4 "speech/$file" | tr -s ' ')" = " 1 1" ]
		[ "$(od -An -tu4 -j 24 -N 4 "speech/$file" | tr -d ' ')" -eq 16000 ]
		[ "$(stat -c %s "speech/$file")" -gt 3244 ]
	done
	make_data make-speech again 1 1
	diff -r speech again
	PATH=/nowhere run -4 /usr/bin/python3 "$srcdir/tools/make-speech" none
	[[ $output == *"Debian package: espeak-ng"* ]]
}

@test "kneser-ney gives what the formula gives by hand" {
	# pairs aa, ab: D = 1/2, q(b) = 1/4 + 1/512, p(b|a) = (1/2 + q(b)) / 2
	printf aab >train
	printf ab >test
	run -0 "$srcdir/tests/kneser-ney" train test
	[ "$output" = 1.411285 ]
	# what was never seen is spread over all bytes: p(z|y) = D'/n(..) n'(.)/256 = 1/512
	printf yz >test
	run -0 "$srcdir/tests/kneser-ney" train test
	[ "$output" = 9.000000 ]
	run -1 "$srcdir/tests/kneser-ney" train none
	[[ $output == *none* ]]
}
