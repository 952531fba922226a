"""Live servers on replicas: which node may be read, the connections to it, and what stays away."""
