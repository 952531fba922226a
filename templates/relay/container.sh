sudo docker run --detach --name relay --restart always --network host \
  --read-only --cap-drop ALL --user 65534:65534 --env-file /opt/relay/relay.env \
  --volume /opt/relay/relay.py:/relay.py:ro python:3-slim python -I /relay.py
