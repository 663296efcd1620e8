from .detect import read as read, write as write
from .format import Format as Format
