"""A learner as an HTTP service: predictions in batches, teaching while it answers, versions to go back to, and a page.

`ictrl serve` starts it; `app.create_app` is the ASGI application for a server of one's own. No picture is ever written
to disk, logged or kept.
"""
