curl -fsSo relay.py '{{ program }}'
python3 -I relay.py --settings relay.env --check <<'END'
{{ message }}
END
