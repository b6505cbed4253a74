from frazil.ops import SessionMode as SessionMode
from frazil.repository.session import ForkSession as ForkSession
from frazil.repository.session import Session as Session
