"""The tests of Rota; ``script/test`` runs them all."""
