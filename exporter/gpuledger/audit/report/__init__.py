"""What an audit has to say, and the formats that say it: one a module, each a `render` of the same report."""
