# SPDX-License-Identifier: Apache-2.0
# Cost per hour by item, spot beside on-demand; the right axis says the same per million samples.
set ylabel 'cost (USD per hour)'
set style data histograms
set style histogram rowstacked
set style fill solid 1.0 border rgb '#ffffff'
set boxwidth 0.5 relative
set xtics scale 0
stats data_file using 'total' nooutput name 'total'
top = total_max > 0 ? total_max * 1.15 : 1
set yrange [0:top]
if (per_million > 0) { set border 11; set y2label 'USD per million samples'; set y2range [0:top * per_million]; set y2tics }
set xrange [-0.7:n_scopes - 0.3]
array color[8] = [sky, green, yellow, orange, vermilion, purple, blue, grey]
do for [format in 'svg png'] {
    eval begin(format, 900, 480)
    set output name.'.'.format
    plot for [i = 1:n_items] data_file using (column(i + 1)):xtic(stringcolumn('scope')) linecolor rgb color[i] title columnheader(i + 1), \
         '' using 0:'total':(sprintf('%.2f USD/h', column('total'))) with labels offset 0, 0.8 font ',12' textcolor rgb black
    unset output
}
