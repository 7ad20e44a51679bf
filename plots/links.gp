# SPDX-License-Identifier: Apache-2.0
# Every directed pair of sites: the target above, what was achieved below; darker is more.
unset border
unset grid
unset key
unset label
set tics scale 0
unset colorbox
set xrange [-0.5:n_sites - 0.5]
set yrange [n_sites - 0.5:-0.5]
set palette defined (0 '#f7fbff', 0.5 '#d3e5f4', 1 '#9ccbe8')
tics = ''
do for [i = 1:n_sites] { tics = tics.(i > 1 ? ', ' : '')."'".word(sites, i)."' ".(i - 1) }
longest = 0
do for [i = 1:n_sites] { if (strlen(word(sites, i)) > longest) { longest = strlen(word(sites, i)) } }
margin = 34 + 9.2 * longest
if (n_sites > 4) { set xtics rotate by 35 right }
eval 'set xtics ('.tics.')'
eval 'set ytics ('.tics.')'
cell = n_sites <= 4 ? 84 : (n_sites <= 8 ? 64 : 52)
width = 2 * (cell * n_sites + margin) + 40
if (width < 720) { width = 720 }
height = cell * n_sites + (n_sites > 4 ? 130 + 7 * longest : 145)
number_font = n_sites <= 4 ? ',11' : (n_sites <= 8 ? ',9' : ',7')
is_kind(k) = stringcolumn('kind') eq k
set tmargin at screen 1 - 100.0 / height
set bmargin at screen 1 - (100.0 + cell * n_sites) / height
panels = 'rtt throughput'
head_of(k) = k eq 'rtt' ? 'RTT (ms), from row to column' : 'TCP throughput (Mbit/s), from row to column'
do for [format in 'svg png'] {
    eval begin(format, width, height)
    set output name.'.'.format
    set multiplot
    set label 1 title_text at screen 0.015, screen 1 - 22.0 / height left font ',15'
    set label 2 about_text.'; in a cell: target above, achieved below' at screen 0.015, screen 1 - 45.0 / height left font ',11' textcolor rgb (is_valid ? '#444444' : '#b00000')
    do for [p = 1:2] {
        k = word(panels, p)
        x0 = (margin + (p == 1 ? 0.0 : width / 2.0)) / width
        set lmargin at screen x0
        set rmargin at screen x0 + cell * n_sites * 1.0 / width
        set label 3 head_of(k) at screen x0, screen 1 - 82.0 / height left font ',11'
        if (k eq 'throughput') { set cbrange [*:*]; set logscale cb } else { unset logscale cb; set cbrange [0:*] }
        plot data_file using (is_kind(k) ? column('to_index') : NaN):(column('from_index')):(column('to_index') - 0.48):(column('to_index') + 0.48):(column('from_index') - 0.48):(column('from_index') + 0.48):(is_kind(k) ? column('achieved') : NaN) with boxxyerror fillstyle solid 1.0 noborder linecolor palette, \
             '' using (is_kind(k) ? column('to_index') : NaN):(column('from_index') - 0.16):(stringcolumn('target_text')) with labels font number_font textcolor rgb '#444444', \
             '' using (is_kind(k) && column('ok') > 0 ? column('to_index') : NaN):(column('from_index') + 0.18):(stringcolumn('achieved_text')) with labels font number_font textcolor rgb '#000000', \
             '' using (is_kind(k) && column('ok') < 1 ? column('to_index') : NaN):(column('from_index') + 0.18):(stringcolumn('achieved_text').' !') with labels font number_font textcolor rgb '#b00000'
        unset label 1; unset label 2
    }
    unset multiplot
    unset output
}
