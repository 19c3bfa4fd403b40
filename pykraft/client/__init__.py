"""Producer, consumer and admin client as pure cores: what to send, to whom, when again, and what an answer means."""
