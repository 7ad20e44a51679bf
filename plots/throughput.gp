# SPDX-License-Identifier: Apache-2.0
# Bars: samples per second of the whole group. Points: without averaging.
set xlabel 'epoch' offset 0, 0.4
set ylabel 'throughput (samples/s)'
set style fill solid 1.0 noborder
set boxwidth 0.62 * epoch_step
set yrange [0:*]
stats data_file using 'throughput_sps' nooutput name 'group'
local_max = 0
if (has_local) { stats data_file using 'local_sps' nooutput name 'local' }
top = (group_max > local_max ? group_max : local_max) * 1.12
if (published > top / 1.12) { top = published * 1.12 }
set yrange [0:top]
set xrange [first_epoch - 0.7 * epoch_step:last_epoch + 0.7 * epoch_step]
stride = n_epochs <= 20 ? epoch_step : ceil((last_epoch - first_epoch) / 10.0)
set xtics stride
set key outside bottom center horizontal width 1 samplen 2.5
if (baseline > 0) { set y2label 'speed-up over one node alone'; set y2range [0:top / baseline]; set y2tics; set border 11 }
is_few = n_epochs <= 12
bar_text(x) = is_few ? sprintf('%.4g', x) : ''
do for [format in 'svg png'] {
    eval begin(format, 900, 480)
    set output name.'.'.format
    plot data_file using 'epoch':'throughput_sps' with boxes linecolor rgb sky title 'whole group', \
         '' using 'epoch':'throughput_sps':(bar_text(column('throughput_sps'))) with labels offset 0, -0.8 font ',11' textcolor rgb black, \
         '' using 'epoch':(has_local ? column('local_sps') : NaN) with linespoints linetype 1 linecolor rgb orange pointtype 7 pointsize 0.8 linewidth 1.5 title has_local ? 'sum of the ranks, without averaging' : '', \
         (baseline > 0 ? baseline : NaN) with lines linetype 1 dashtype 2 linecolor rgb black linewidth 1.5 title (baseline > 0 ? 'one node alone (profile)' : ''), \
         (published > 0 ? published : NaN) with lines linetype 1 dashtype 4 linecolor rgb vermilion linewidth 1.8 title (published > 0 ? 'published' : '')
    unset output
}
