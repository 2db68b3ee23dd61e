"""The search for a cluster: which fabric, with which fields, trains most samples for a dollar or a joule."""
