"""Training data: images decoded once (`images`), made bad (`pairs`), split (`split`), cut (`crops`)."""

from twinnet.restore.data.crops import Crops, batches
from twinnet.restore.data.images import ImageSet, open_images
from twinnet.restore.data.pairs import Pairs, open_pairs
from twinnet.restore.data.split import TrainingData, training_crops, training_data

__all__ = [
    "Crops",
    "ImageSet",
    "Pairs",
    "TrainingData",
    "batches",
    "open_images",
    "open_pairs",
    "training_crops",
    "training_data",
]
