"""An inventory of GPUs outside of Rota: a client that is patient, and knows when to give up."""
