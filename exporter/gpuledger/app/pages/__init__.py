"""The pages for people: each a self-contained document, which works without JavaScript and is live with it."""
