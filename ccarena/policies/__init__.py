"""Policy networks and the artifact that carries them out of training: one safetensors file, never a pickle.

`artifact` reads and writes it with NumPy alone; `networks` needs PyTorch, `sb3` Stable-Baselines3.
"""
