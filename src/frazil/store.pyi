from frazil.repository.store import IcechunkStore as IcechunkStore
