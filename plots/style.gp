# SPDX-License-Identifier: Apache-2.0
# What all figures share: fonts, lines, colours that colour-blind readers can tell apart (Okabe
# and Ito, 2008). `begin` and `finish` of each format are called by the figure's own part.
set encoding utf8
set datafile separator comma
set datafile missing ''
set border 3 linecolor rgb '#444444' linewidth 1
set tics out nomirror textcolor rgb '#222222'
set grid ytics linetype 1 linecolor rgb '#e4e4e4' linewidth 0.8
set key outside right top vertical Left reverse noautotitle width -2 spacing 1.25
black = '#000000'; orange = '#e69f00'; sky = '#56b4e9'; green = '#009e73'
yellow = '#f0e442'; blue = '#0072b2'; vermilion = '#d55e00'; purple = '#cc79a7'; grey = '#999999'
set label 1 title_text at screen 0.015, screen 0.965 left font ',15' textcolor rgb '#000000'
set label 2 about_text at screen 0.015, screen 0.965 left offset 0, -1.55 font ',11' textcolor rgb (is_valid ? '#444444' : '#b00000')
set tmargin 4.6
png_scale = 2
svg_terminal(w, h) = sprintf("set terminal svg size %d,%d noenhanced font 'DejaVu Sans,Arial,sans-serif,12' background '#ffffff' linewidth 1", w, h)
png_terminal(w, h) = sprintf("set terminal pngcairo size %d,%d noenhanced font 'DejaVu Sans,12' fontscale %d linewidth %d pointscale %d background '#ffffff'", w * png_scale, h * png_scale, png_scale, png_scale, png_scale)
begin(format, w, h) = format eq 'svg' ? svg_terminal(w, h) : png_terminal(w, h)
