# SPDX-License-Identifier: Apache-2.0
# Where each epoch's time goes; the number above a bar is its granularity.
set xlabel 'epoch'
set ylabel 'time (s)'
set style data histograms
set style histogram rowstacked
set style fill solid 1.0 border rgb '#ffffff'
set boxwidth 0.62 relative
set xtics scale 0
stride = n_epochs <= 20 ? 1 : ceil(n_epochs / 10.0)
set xrange [-0.7:n_epochs - 0.3]
stats data_file using 'wall_s' nooutput name 'wall'
set yrange [0:wall_max * 1.1]
is_few = n_epochs <= 16
bar_text(x) = is_few && x == x ? sprintf('G %.2f', x) : ''
tick_text(row, x) = int(row) % stride == 0 ? sprintf('%d', x) : ''
parts = 'wait_s host_s transfer_s apply_s'
colors = yellow.' '.orange.' '.blue.' '.purple
array part[4] = ['wait for the group', 'averaging: host', 'averaging: transfer', 'apply the update']
do for [format in 'svg png'] {
    eval begin(format, 900, 480)
    set output name.'.'.format
    plot data_file using 'calculation_s':xtic(tick_text(column(0), column('epoch'))) linecolor rgb sky title 'calculation', \
         for [i = 1:has_parts * 4] '' using word(parts, i) linecolor rgb word(colors, i) title part[i], \
         for [i = 1:has_whole] '' using 'communication_s' linecolor rgb blue title 'communication, as the program says', \
         '' using 'other_s' linecolor rgb '#cccccc' title 'other', \
         '' using 0:'wall_s':(bar_text(column('granularity'))) with labels offset 0, 0.7 font ',11' textcolor rgb black title is_few ? 'G: granularity' : ''
    unset output
}
