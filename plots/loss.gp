# SPDX-License-Identifier: Apache-2.0
# Loss (above) and accuracy (below) over epochs or time, of the training samples and of the test data.
height = 640
set key off
do for [format in 'svg png'] {
    eval begin(format, 900, height)
    set output name.'.'.format
    set multiplot
    set label 1 title_text at screen 0.015, screen 1 - 22.0 / height left font ',15'
    set label 2 about_text at screen 0.015, screen 1 - 45.0 / height left font ',11' textcolor rgb '#444444'
    set lmargin at screen 0.085
    set rmargin at screen 0.975
    do for [p = 1:2] {
        if (p == 1) { unset xlabel; set format x ''; set key off } else { set xlabel x_label offset 0, 0.5; set format x '%g'; set key at screen 0.86, screen 0.025 center center horizontal samplen 2 font ',10' }
        set tmargin at screen 0.905 - 0.42 * (p - 1)
        set bmargin at screen 0.905 - 0.42 * (p - 1) - 0.38
        set ylabel (p == 1 ? 'loss (nats)' : 'accuracy (%)') offset 0.5, 0 font ',11'
        set yrange [0:*]
        factor = p == 1 ? 1 : 100
        w = p == 1 ? 'loss' : 'accuracy'
        plot data_file using 'x':(factor * column(w)) with lines linetype 1 linecolor rgb sky linewidth 1.5 title 'training samples', \
             '' using 'x':(has_tests > 0 ? factor * column('test_'.w) : NaN) with linespoints linetype 1 linecolor rgb vermilion pointtype 7 pointsize 0.6 linewidth 1.5 title (has_tests > 0 ? 'test data' : '')
        unset label 1; unset label 2
    }
    unset multiplot
    unset output
}
