# SPDX-License-Identifier: Apache-2.0
# Quantiles of the delays that were measured against those of the distribution asked for. Few
# paths have a colour each; of many, all are drawn in one.
set size square
set grid xtics ytics linetype 1 linecolor rgb '#e4e4e4' linewidth 0.8
set xlabel 'asked for, in standard deviations from the mean'
set ylabel 'measured, in the same deviations'
colours = blue.' '.vermilion.' '.green.' '.orange.' '.purple.' '.sky
is_few = n_drawn <= 6
paths_text = is_few ? '' : sprintf("%d of %d paths\n", n_drawn, n_paths)
set label 3 paths_text.sprintf("n %d packets a path\nor more; quantiles\n0.1 %% to 99.9 %%", least_packets) at graph 1.04, 0.2 left font ',10' textcolor rgb '#444444'
do for [format in 'svg png'] {
    eval begin(format, 760, 560)
    set output name.'.'.format
    if (is_few) {
        plot x with lines linecolor rgb '#666666' linewidth 1 title 'equal', \
             for [i = 1:n_drawn] data_file using (column('path') == i - 1 ? column('asked') : NaN):'achieved' with points pointtype 3 + 2 * i pointsize 0.8 linecolor rgb word(colours, i) title word(paths, i)
    } else {
        plot data_file using 'asked':'achieved' with points pointtype 7 pointsize 0.35 linecolor rgb sky title 'a quantile', \
             x with lines linecolor rgb '#666666' linewidth 1 title 'equal'
    }
    unset output
}
