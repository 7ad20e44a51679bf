# SPDX-License-Identifier: Apache-2.0
# Speed-up (above) and accuracy (below) of series of runs over what was changed, beside one run.
height = 640
set key off
set logscale x 2
set offsets graph 0.05, graph 0.05, 0, 0
array color[6] = [vermilion, blue, green, orange, sky, purple]
array point[6] = [7, 5, 9, 13, 11, 4]
in_series(i) = strcol('series') eq word(series, i) ? column('at') : NaN
n_panels = has_accuracy > 0 ? 2 : 1
do for [format in 'svg png'] {
    eval begin(format, 900, height)
    set output name.'.'.format
    set multiplot
    set label 1 title_text at screen 0.015, screen 1 - 22.0 / height left font ',15'
    set label 2 about_text at screen 0.015, screen 1 - 45.0 / height left font ',11' textcolor rgb '#444444'
    set lmargin at screen 0.105
    set rmargin at screen 0.975
    do for [p = 1:n_panels] {
        if (p < n_panels) { unset xlabel; set format x ''; set key off } else { set xlabel x_label offset 0, 0.5; set format x '%g'; set key at screen 0.54, screen 0.028 center center horizontal maxrows 1 samplen 2 font ',10' }
        set tmargin at screen 0.895 - 0.395 * (p - 1)
        set bmargin at screen 0.895 - 0.395 * (p - 1) - (n_panels == 1 ? 0.755 : 0.36)
        if (p == 1) { set ylabel 'speed-up' offset 0.5, 0 font ',11'; set yrange [0:*] } else { set ylabel 'test accuracy (%)' offset 0.5, 0 font ',11'; set yrange [*:*] }
        factor = p == 1 ? 1 : 100
        w = p == 1 ? 'speedup' : 'test_accuracy'
        base = p == 1 ? 1 : 100 * base_accuracy
        plot for [i = 1:words(series)] data_file using (in_series(i)):(factor * column(w)) with linespoints linetype 1 linecolor rgb color[(i - 1) % 6 + 1] pointtype point[(i - 1) % 6 + 1] pointsize 1 linewidth 2 title word(series, i), \
             base with lines dashtype 2 linecolor rgb grey linewidth 1.2 title base_name
        unset label 1; unset label 2
    }
    unset multiplot
    unset output
}
