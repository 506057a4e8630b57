"""A page to watch a stream in a browser while it runs.

live.py       what it shows            vitals.py    time per step, speed, memory
serve.py      a small server for it    answers.py   what that says to whom
live.html, live.css, live.js, charts.js    the page
"""
