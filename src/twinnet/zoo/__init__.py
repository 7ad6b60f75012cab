"""Real networks to practise on."""
