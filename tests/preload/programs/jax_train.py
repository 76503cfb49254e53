# SPDX-License-Identifier: LGPL-2.1-or-later
"""Trains a small network with JAX, whose allocator is chosen by XLA_PYTHON_CLIENT_ALLOCATOR, and prints the losses."""
import jax
import jax.numpy as jnp

jax.config.update("jax_default_matmul_precision", "highest")


def forward(weights, inputs):
    for weight in weights[:-1]:
        inputs = jnp.tanh(inputs @ weight)
    return inputs @ weights[-1]


def loss_of(weights, inputs, wanted):
    return jnp.mean((forward(weights, inputs) - wanted) ** 2)


@jax.jit
def train(weights, inputs, wanted):
    loss, slopes = jax.value_and_grad(loss_of)(weights, inputs, wanted)
    return loss, [weight - 0.01 * slope for weight, slope in zip(weights, slopes)]


print("device", jax.devices()[0].platform)
keys = jax.random.split(jax.random.PRNGKey(1), 8)
widths = [256, 1024, 1024, 256]
weights = [jax.random.normal(key, shape) * 0.05 for key, shape in zip(keys, zip(widths, widths[1:]))]
for step in range(24):
    batch = (64, 512, 2048)[step % 3]
    inputs = jax.random.normal(keys[4 + step % 4], (batch, widths[0]))
    loss, weights = train(weights, inputs, jnp.sin(inputs))
    print(step, float(loss).hex())
