sudo python3 -I /opt/relay/relay.py --settings /opt/relay/relay.env --check <<'END'
{{ message }}
END
