"""What a party runs: trainer daemon, challenger bot, verifier service, artifact store and server, chain client, CLI."""
