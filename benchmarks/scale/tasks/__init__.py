"""What a process of its own may be asked to measure."""

from benchmarks.scale.tasks import errors, fit, product

TASKS = {"fit": fit.measure, "product": product.measure, "errors": errors.measure}

__all__ = ["TASKS"]
