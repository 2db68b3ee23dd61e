"""DaDianNao clusters with optical links (Ro, Lee and Ahn, Electronics 2018)."""
