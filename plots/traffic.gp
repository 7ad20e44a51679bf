# SPDX-License-Identifier: Apache-2.0
# One panel per sending site: what its nodes put on the wire, and how much of it was payload.
set xlabel ''
set xrange [0:last_second]
set yrange [0:top]
set style fill solid 1.0 noborder
unset key
unset label
n_rows = (n_sites + n_columns - 1) / n_columns
height = 150 + 124 * n_rows
head = 96.0 / height
foot = 58.0 / height
each = (1.0 - head - foot) / n_rows
left(i) = 0.085 + (i % n_columns) * (0.9 / n_columns)
high(i) = 1.0 - head - (i / n_columns) * each
set tmargin 0
if (n_columns > 1) { set tics font ',10' }
# Of a silence (less than one can see) only the first second is drawn: the file stays small.
last = 0.0
now = 0.0
flow(v) = (last = now, now = v < top / 500.0 ? 0 : v, last == 0 && now == 0 ? NaN : now)
do for [format in 'svg png'] {
    eval begin(format, 900, height)
    set output name.'.'.format
    set multiplot
    do for [i = 0:n_sites - 1] {
        if (i == 1) { unset label 1; unset label 2; unset label 3; unset label 4; unset object 1; if (has_payload) { unset label 5; unset object 2 } }
        if (i == 0) {
            set label 1 title_text at screen 0.015, screen 1 - 22.0 / height left font ',15'
            set label 2 about_text at screen 0.015, screen 1 - 45.0 / height left font ',11' textcolor rgb (is_valid ? '#444444' : '#b00000')
            set label 3 'Mbit/s, sum over the nodes of the sending site' at screen 0.015, screen 1 - 70.0 / height left font ',11'
            set object 1 rectangle from screen 0.60, screen 1 - 74.0 / height to screen 0.62, screen 1 - 64.0 / height fillcolor rgb sky fillstyle solid noborder
            set label 4 'on the wire' at screen 0.628, screen 1 - 70.0 / height left font ',11'
            if (has_payload) { set object 2 rectangle from screen 0.76, screen 1 - 70.5 / height to screen 0.78, screen 1 - 68.5 / height fillcolor rgb blue fillstyle solid noborder
                set label 5 'payload' at screen 0.788, screen 1 - 70.0 / height left font ',11' }
        }
        set lmargin at screen left(i)
        set rmargin at screen left(i) + 0.9 / n_columns - (n_columns == 1 ? 0.045 : 0.075)
        set tmargin at screen high(i) - 0.19 * each
        set bmargin at screen high(i) - 0.93 * each
        set label 6 word(sites, i + 1) at graph 0, graph 1.12 left font ',11' front
        set ytics autofreq top > 0 ? top / 2.0 : 1
        set format y '%.0f'
        is_last = i >= n_sites - n_columns
        if (is_last) { set format x '%.0f'; set xlabel 'time since the training began (s)' offset 0, 0.3 } else { set format x ''; set xlabel '' }
        plot data_file using 'second':(flow(column(2 + 2 * i))) with fillsteps linecolor rgb sky, \
             '' using 'second':(has_payload ? flow(column(3 + 2 * i)) : NaN) with steps linetype 1 linecolor rgb blue linewidth 1
    }
    unset multiplot
    unset output
}
