# SPDX-License-Identifier: Apache-2.0
# Where each epoch's time goes; the number above a bar is its granularity.
set xlabel 'epoch'
set ylabel 'time (s)'
set style data histograms
set style histogram rowstacked
set style fill solid 1.0 border rgb '#ffffff'
set boxwidth 0.62 relative
set xtics scale 0
n_epochs = last_epoch - first_epoch + 1
stride = n_epochs <= 20 ? 1 : ceil(n_epochs / 10.0)
set xrange [-0.7:n_epochs - 0.3]
stats data_file using 'wall_s' nooutput name 'wall'
set yrange [0:wall_max * 1.1]
is_few = n_epochs <= 16
bar_text(x) = is_few && x == x ? sprintf('G %.2f', x) : ''
tick_text(x) = int(x) % stride == 0 ? sprintf('%d', x) : ''
do for [format in 'svg png'] {
    eval begin(format, 900, 480)
    set output name.'.'.format
    plot data_file using 'calculation_s':xtic(tick_text(column('epoch'))) linecolor rgb sky title 'calculation', \
         '' using 'wait_s' linecolor rgb yellow title 'wait for the group', \
         '' using 'host_s' linecolor rgb orange title 'averaging: host', \
         '' using 'transfer_s' linecolor rgb blue title 'averaging: transfer', \
         '' using 'apply_s' linecolor rgb purple title 'apply the update', \
         '' using 'other_s' linecolor rgb '#cccccc' title 'other', \
         '' using 0:'wall_s':(bar_text(column('granularity'))) with labels offset 0, 0.7 font ',11' textcolor rgb black title is_few ? 'G: granularity' : ''
    unset output
}
