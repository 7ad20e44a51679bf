# SPDX-License-Identifier: Apache-2.0
# Goodput, round trips and retransmissions of captured flows over time, one below the other.
array colours[6] = [blue, vermilion, green, orange, purple, sky]
panels = 'goodput_mbps rtt_ms retransmitted'
head_of(p) = p == 1 ? 'goodput (Mbit/s)' : (p == 2 ? 'median RTT (ms)' : 'retransmitted')
height = 640
of_flow(i) = column('flow') == i - 1 ? column('time_s') : NaN
stats data_file using 'time_s' nooutput name 'time'
stats data_file using 'rtt_ms' nooutput name 'rtt'
stats data_file using 'retransmitted' nooutput name 'again'
set xrange [0:time_max + interval_s]
set key off
do for [format in 'svg png'] {
    eval begin(format, 900, height)
    set output name.'.'.format
    set multiplot
    set label 1 title_text at screen 0.015, screen 1 - 22.0 / height left font ',15'
    set label 2 about_text at screen 0.015, screen 1 - 45.0 / height left font ',11' textcolor rgb '#444444'
    set lmargin at screen 0.085
    set rmargin at screen 0.975
    do for [p = 1:3] {
        set tmargin at screen 0.905 - 0.27 * (p - 1)
        set bmargin at screen 0.905 - 0.27 * (p - 1) - 0.23
        set ylabel head_of(p) offset 0.5, 0 font ',11'
        if (p == 3) { set xlabel 'time (s)' offset 0, 0.5; set format x '%g' } else { unset xlabel; set format x '' }
        if (p == 3 && again_max < 5) { set yrange [0:5] } else { set yrange [0:*] }
        if (p == 3) { set key at screen 0.53, screen 0.025 center center horizontal maxrows 2 samplen 2 font ',10' } else { set key off }
        w = word(panels, p)
        plot for [i = 1:n_flows] data_file using (of_flow(i)):(column(w)) with linespoints linetype 1 linecolor rgb colours[i] pointtype 7 pointsize 0.35 linewidth 1.5 title word(flows, i)
        unset label 1; unset label 2
    }
    unset multiplot
    unset output
}
