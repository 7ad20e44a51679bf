# SPDX-License-Identifier: Apache-2.0
# Deviation from the target, in shares of what is allowed, one lane per property. Few rows are
# points, many are a strip: line from least to most, box from quarter to quarter, bar at the
# median. A miss is a cross; what misses by more than the axis shows is drawn at its end.
unset border
unset ytics
set grid xtics linetype 1 linecolor rgb '#e4e4e4' linewidth 0.8
set xrange [-1.4:1.4]
set yrange [n_lanes - 0.4:-0.6]
set xtics ('-100 %%' -1, '-50 %%' -0.5, 'target' 0, '+50 %%' 0.5, '+100 %%' 1) scale 0
set xlabel 'deviation from the target, as a share of what is allowed (tolerance and chance)' font ',11'
height = 176 + 30 * n_lanes
set tmargin at screen 1 - 66.0 / height
set bmargin at screen 110.0 / height
set lmargin at screen 0.17
set rmargin at screen 0.66
set label 1 at screen 0.015, screen 1 - 22.0 / height
set label 2 at screen 0.015, screen 1 - 45.0 / height offset 0, 0
set label 3 'rows: the largest deviation, of what is allowed' at graph 1.02, screen 1 - 54.0 / height left font ',10' textcolor rgb '#444444'
set key at screen 0.415, screen 24.0 / height center center horizontal maxrows 1 samplen 1.5 font ',11'
set object 1 rectangle from -1, graph 0 to 1, graph 1 fillcolor rgb '#e8f2f9' fillstyle solid 1.0 noborder behind
set arrow 1 from 0, graph 0 to 0, graph 1 nohead linecolor rgb '#666666' linewidth 1 back
do for [i = 1:n_lanes] {
    set label 10 + i word(names, i) at graph -0.02, first (i - 1) right font ',11'
    set label 100 + i value(sprintf('note_%d', i)) at graph 1.02, first (i - 1) left font ',10' textcolor rgb (value(sprintf('n_missed_%d', i)) > 0 ? '#b00000' : '#444444')
}
is(k) = stringcolumn('kind') eq k
lane_of(k) = is(k) ? column('lane') : NaN
do for [format in 'svg png'] {
    eval begin(format, 1060, height)
    set output name.'.'.format
    plot data_file using (column('lowest')):(lane_of('strip')):(column('highest') - column('lowest')):(0) with vectors nohead linecolor rgb blue linewidth 1.5 title has_strips ? 'least to most' : '', \
         '' using (column('share')):(lane_of('strip')):(column('quarter')):(column('three_quarters')):(column('lane') - 0.2):(column('lane') + 0.2) with boxxyerror fillstyle solid 1.0 noborder linecolor rgb sky title has_strips ? 'the middle half' : '', \
         '' using (column('share')):(lane_of('strip') - 0.24):(0):(0.48) with vectors nohead linecolor rgb black linewidth 2 title has_strips ? 'median' : '', \
         '' using (column('share')):(lane_of('point')) with points pointtype 7 pointsize 0.45 linecolor rgb blue title 'one row', \
         '' using (column('share')):(lane_of('miss')) with points pointtype 2 pointsize 0.9 linewidth 2 linecolor rgb vermilion title is_valid ? '' : 'missed'
    unset output
}
