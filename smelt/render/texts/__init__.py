"""C helper templates, one file per subject; `smelt.render.library` says how they are written."""
