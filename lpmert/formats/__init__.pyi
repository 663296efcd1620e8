from .detect import read as read
from .detect import write as write
from .format import Format as Format
