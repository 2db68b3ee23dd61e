"""The search engine that all families of synthesis share."""
