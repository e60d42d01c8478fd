"""Control of a run by other processes of the same user: discovery, protocol, server, client."""
