"""``lightloom compress``: codecs on files and on gradients."""
