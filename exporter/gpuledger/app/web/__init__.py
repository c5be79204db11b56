"""Who may connect and ask: TLS, passwords and tokens, as a file or Kubernetes says."""
